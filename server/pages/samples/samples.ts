/** Code on the pages: commands that send a signed request to a webhook, and the start of an agent from the templates of views/samples/. */
import { Eta } from 'eta';
import { builtFile } from '../../base/files/build.ts';
import type { ClientPackage } from '../../base/http/client-package.ts';
import { CUSTOM, DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import { commandDefinition, type SignedTarget, shellWord, signedCurl } from './curl.ts';

interface CodeSample {
  /** Label of its tab. */
  language: string;
  code: string;
}

/** `literal` writes any text as one literal of the language. Python reads every string of JSON as the same text. */
const languages: [label: string, template: string, literal: (text: string) => string][] = [
  ['curl', 'curl', shellWord],
  ['Node.js', 'node', JSON.stringify],
  ['Python', 'python', JSON.stringify],
];

/** The configuration with which an AI agent connects. Several clients replace the variable by its value in their environment. */
function mcpConfiguration(api: string): string {
  const headers = { Authorization: `Bearer \${WEIR_CREDENTIAL}` };
  return JSON.stringify({ mcpServers: { weir: { type: 'http', url: `${api}/mcp`, headers } } }, null, 2);
}

/**
 * Code that claims deliveries and acknowledges them, for its page; the command of Weir is the shortest. The credential is read from
 * WEIR_CREDENTIAL.
 * @param api URL of the API, FRONTEND_PUBLIC_API_URL
 */
export function agentSamples(
  api: string,
  { command, install }: Pick<ClientPackage, 'command' | 'install'>,
): CodeSample[] {
  const views = builtFile('views/samples');
  return [
    {
      language: 'Weir',
      code: `${command} \\
  consume ${api} \\
  --credential-file FILE`,
    },
    ...languages.map(([language, template, literal]) => {
      // `<%= text %>` writes a literal with its quotes; tags that end in `-%>` take the rest of their line with them.
      const eta = new Eta({ views, autoTrim: false, escapeFunction: (text) => literal(String(text)) });
      return { language, code: eta.render(`./${template}`, { api, install }).trimEnd() };
    }),
    { language: 'AI agent (MCP)', code: mcpConfiguration(api) },
  ];
}

const EXAMPLE_BODY = '{"hello":"world"}';

type Target = SignedTarget & { url: string };

/** The first sample of webhookSamples, for the page that shows a new secret. */
export function tryItOf(webhook: Target, weir: string): string {
  return webhookSamples(webhook, weir)[0]?.code ?? '';
}

/**
 * Returns a Weir command that signs as the sender does, and a curl command where a shell can sign.
 * @param weir how to run the command line
 */
export function webhookSamples(webhook: Target, weir: string): CodeSample[] {
  const { url, signature_scheme: scheme, signature_header: header, public_key } = webhook;
  const named = header === null ? '' : ` --signature-header ${header}`;
  const key = public_key === null ? '' : ' --private-key FILE';
  const definition = commandDefinition(webhook);
  const curl = signedCurl({ url, body: Buffer.from(EXAMPLE_BODY), contentType: 'application/json', definition });
  return [
    ...(scheme === DEFAULT_SCHEME || scheme === CUSTOM
      ? []
      : [{ language: 'Weir', code: `${weir} send ${url} --scheme ${scheme}${named}${key}` }]),
    ...(curl === null ? [] : [{ language: 'curl', code: curl }]),
  ];
}
