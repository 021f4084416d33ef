"""Rules: which notes may go where (`docs/rules.md`). Pure: what is known of a request comes in, a decision goes out.

| file            | knows                                                                            |
|-----------------|----------------------------------------------------------------------------------|
| `globs.py`      | patterns for folders, notes, tags and names                                      |
| `conditions.py` | what a rule says: `Rule`, `When`, and the comparisons in it                      |
| `facts.py`      | what rules may ask of a note                                                     |
| `book.py`       | all rules together, prepared so that judging costs little: which one judges what |
| `judging.py`    | `judge`: the verdicts of one request, and the strictest of them                  |
| `faults.py`     | rules that can never apply                                                       |
| `dry_run.py`    | what rules would have done with recorded requests                                |
| `written.py`    | rules as mitm.yaml writes them, for the API                                      |
"""

from memory.rules.book import RuleBook
from memory.rules.conditions import Rule, When
from memory.rules.dry_run import DryRun, dry_run
from memory.rules.facts import Facts, NoteFacts, NotesFacts, facts_of
from memory.rules.faults import Known, RuleFault, faults_of
from memory.rules.judging import Judged, both, judge

__all__ = [
    "DryRun",
    "Facts",
    "Judged",
    "Known",
    "NoteFacts",
    "NotesFacts",
    "Rule",
    "RuleBook",
    "RuleFault",
    "When",
    "both",
    "dry_run",
    "facts_of",
    "faults_of",
    "judge",
]
