/** Code that sends a signed request to a webhook, in several languages, filled in with its URL, headers and scheme. */
import type { SchemeDefinition } from '../signatures/definition.ts';
import { shellWord } from './curl.ts';
import { go, php } from './go-and-php-samples.ts';
import { headersOf, joined, type Name, type Part, type Plan, planOf, usesTime } from './sample-plan.ts';

export interface Sample {
  /** Label of its tab. */
  language: string;
  code: string;
}

/**
 * @param definition of the scheme; null: the webhook verifies no signature
 * @returns no samples for a scheme that is not an HMAC over the body, the time and an id
 */
export function sendSamples(url: string, body: string, definition: SchemeDefinition | null): Sample[] {
  const plan = planOf(url, body, definition);
  if (plan === null) return [];
  return [
    { language: 'curl', code: curl(plan) },
    { language: 'Node.js', code: node(plan) },
    { language: 'Python', code: python(plan) },
    { language: 'Go', code: go(plan) },
    { language: 'PHP', code: php(plan) },
  ];
}

function curl(plan: Plan): string {
  const { content, value, hash, encoding, secret } = plan;
  const names: Record<Name, string> = { body: '$BODY', timestamp: '$TIMESTAMP', id: '$ID', signature: '$SIGNATURE' };
  const word = (parts: readonly Part[]) =>
    `"${parts.map((part) => ('name' in part ? names[part.name] : part.text.replaceAll('!', '"\'!\'"'))).join('')}"`;
  const key = {
    text: '-hmac "$WEIR_SECRET"',
    hex: '-mac HMAC -macopt "hexkey:$WEIR_SECRET"',
    base64: '-mac HMAC -macopt "hexkey:$KEY"',
  }[secret];
  const digest = `openssl dgst -${hash} ${key}`;
  const encoded = encoding === 'hex' ? `${digest} -r | cut -d' ' -f1` : `${digest} -binary | openssl base64 -A`;
  const headers = headersOf(plan, '', (name) => names[name]).map(([name]) => {
    const parts = name === plan.header ? value : [{ name: name === plan.idHeader ? 'id' : 'timestamp' } as Part];
    return `  -H ${word([{ text: `${name}: ` }, ...parts])} \\`;
  });
  return [
    `BODY=${shellWord(plan.body)}`,
    ...(plan.idHeader === null ? [] : ['ID=$(openssl rand -hex 16)']),
    ...(usesTime(plan) ? [`TIMESTAMP=$(date +%s${plan.milliseconds ? '%3N' : ''})`] : []),
    ...(secret === 'base64'
      ? [`KEY=$(printf %s "\${WEIR_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')`]
      : []),
    ...(content.length === 0 ? [] : [`SIGNATURE=$(printf %s ${word(content)} | ${encoded})`]),
    `curl ${shellWord(plan.url)} \\`,
    ...headers,
    `  -H 'Content-Type: application/json' --data-raw "$BODY"`,
  ].join('\n');
}

function node(plan: Plan): string {
  const key = {
    text: 'process.env.WEIR_SECRET',
    hex: 'Buffer.from(process.env.WEIR_SECRET, "hex")',
    base64: 'Buffer.from(process.env.WEIR_SECRET.replace(/^whsec_/, ""), "base64")',
  }[plan.secret];
  const signed = plan.content.length > 0;
  const headers = headersOf(plan, ' + ', (name) => name).map(([name, value]) => `"${name}": ${value}`);
  return [
    ...(signed || plan.idHeader !== null
      ? [
          `import { ${[signed && 'createHmac', plan.idHeader && 'randomUUID'].filter(Boolean).join(', ')} } from "node:crypto";`,
          '',
        ]
      : []),
    `const body = ${JSON.stringify(plan.body)};`,
    ...(plan.idHeader === null ? [] : ['const id = randomUUID();']),
    ...(usesTime(plan)
      ? [`const timestamp = String(${plan.milliseconds ? 'Date.now()' : 'Math.floor(Date.now() / 1000)'});`]
      : []),
    ...(signed
      ? [
          `const key = ${key};`,
          `const signature = createHmac("${plan.hash}", key).update(${joined(plan.content, ' + ', (name) => name)}).digest("${plan.encoding}");`,
        ]
      : []),
    `const response = await fetch("${plan.url}", {`,
    '  method: "POST",',
    `  headers: { ${['"content-type": "application/json"', ...headers].join(', ')} },`,
    '  body,',
    '});',
    'console.log(response.status, await response.text());',
  ].join('\n');
}

function python(plan: Plan): string {
  const key = {
    text: 'os.environ["WEIR_SECRET"].encode()',
    hex: 'bytes.fromhex(os.environ["WEIR_SECRET"])',
    base64: 'base64.b64decode(os.environ["WEIR_SECRET"].removeprefix("whsec_"))',
  }[plan.secret];
  const signed = plan.content.length > 0;
  const digest = `hmac.new(key, (${joined(plan.content, ' + ', (name) => name)}).encode(), "${plan.hash}")`;
  const headers = headersOf(plan, ' + ', (name) => name).map(([name, value]) => `"${name}": ${value}`);
  const modules = [
    ...(plan.secret === 'base64' || plan.encoding === 'base64' ? ['base64'] : []),
    ...(signed ? ['hmac', 'os'] : []),
    ...(usesTime(plan) ? ['time'] : []),
    'urllib.request',
    ...(plan.idHeader === null ? [] : ['uuid']),
  ];
  return [
    `import ${modules.join(', ')}`,
    '',
    `body = ${JSON.stringify(plan.body)}`,
    ...(plan.idHeader === null ? [] : ['id = str(uuid.uuid4())']),
    ...(usesTime(plan) ? [`timestamp = str(int(time.time()${plan.milliseconds ? ' * 1000' : ''}))`] : []),
    ...(signed
      ? [
          `key = ${key}`,
          plan.encoding === 'hex'
            ? `signature = ${digest}.hexdigest()`
            : `signature = base64.b64encode(${digest}.digest()).decode()`,
        ]
      : []),
    `headers = {${['"content-type": "application/json"', ...headers].join(', ')}}`,
    `request = urllib.request.Request("${plan.url}", body.encode(), headers)`,
    'with urllib.request.urlopen(request) as response:',
    '    print(response.status, response.read().decode())',
  ].join('\n');
}
