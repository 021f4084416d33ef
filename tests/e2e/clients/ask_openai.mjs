// A program as a user writes it. Node's fetch asks for no proxy by itself, so the SDK is told, as its documentation
// says. Prints what it got, as JSON.
import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { ProxyAgent } from 'undici';

const [prompt, thanks] = JSON.parse(readFileSync(0, 'utf8'));
const client = new OpenAI({
  apiKey: 'dummy',
  fetchOptions: { dispatcher: new ProxyAgent(process.env.HTTPS_PROXY) },
});
const model = 'gpt-test';

const messages = [{ role: 'user', content: prompt }];
const first = (await client.chat.completions.create({ model, messages })).choices[0].message.content;
messages.push({ role: 'assistant', content: first }, { role: 'user', content: thanks });
let streamed = '';
const options = { stream: true, stream_options: { include_usage: true } };
for await (const chunk of await client.chat.completions.create({ model, messages, ...options })) {
  streamed += chunk.choices[0]?.delta.content ?? '';
}

const response = await client.responses.create({ model, input: prompt });
let deltas = '';
const next = { model, input: thanks, previous_response_id: response.id, stream: true };
for await (const event of await client.responses.create(next)) {
  if (event.type === 'response.output_text.delta') deltas += event.delta;
}
console.log(JSON.stringify([first, streamed, response.output_text, deltas]));
