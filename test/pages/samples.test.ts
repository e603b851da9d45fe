/** The literals of the samples. That the samples work is in samples.long.test.ts, which runs them. */
import { expect, test } from 'vitest';
import { sendSamples } from '../../server/pages/samples/send.ts';

const body = `{"a":"$(id) \${b} it's <%= c %> \\n"}`;

test.each([
  ['curl', `BODY='{"a":"$(id) \${b} it'\\''s <%= c %> \\n"}'\n`],
  ['Node.js', `const body = "{\\"a\\":\\"$(id) \${b} it's <%= c %> \\\\n\\"}";\n`],
  ['Python', `body = "{\\"a\\":\\"$(id) \${b} it's <%= c %> \\\\n\\"}"\n`],
  ['Go', `body := "{\\"a\\":\\"$(id) \${b} it's <%= c %> \\\\n\\"}"\n`],
  ['PHP', `$body = '{"a":"$(id) \${b} it\\'s <%= c %> \\\\n"}';\n`],
])('a sample in %s contains the body as a literal of the language', (language, expected) => {
  const { code } = sendSamples('http://x/in/1', body, 'none').find((sample) => sample.language === language)!;
  expect(code).toContain(expected);
});

test('a signed text that is written differently in each language has only the command', () => {
  const definition = { algorithm: 'hmac-sha256', header: 'X-Signature' } as const;
  expect(sendSamples('http://x/in/1', '{}', { ...definition, content: 'v0:{body}' })).toHaveLength(5);
  for (const text of ['$', '`', '"', '\\', "'", '\n'])
    expect(sendSamples('http://x/in/1', '{}', { ...definition, content: `${text}{body}` })).toHaveLength(1);
});
