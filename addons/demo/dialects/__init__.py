"""One file per wire format: a reply, said as the provider says it, whole or as a stream.

Key order, spacing and line ends follow recordings of the providers' own answers, so that what reads them here would
read the real ones.
"""
