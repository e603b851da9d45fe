/** Requests as shell commands. */
import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import { selectedDefinition } from '../../model/webhook-schemes.ts';
import { shellText, shellWord } from './shell.ts';
import { SET_ID, type ShellSigning, shellSigning } from './shell-signing.ts';

/** The members of a webhook that say how its requests are signed. */
export type SignedTarget = Parameters<typeof selectedDefinition>[0] & { has_secret: boolean };

/** How a command signs; `none`: the webhook verifies no signature; null: this build does not know the scheme. */
export function commandDefinition(webhook: SignedTarget): SchemeDefinition | 'none' | null {
  const definition = selectedDefinition(webhook);
  if (definition === null || webhook.signature_scheme !== DEFAULT_SCHEME) return definition;
  // The default scheme accepts two headers unless the webhook names one.
  return webhook.has_secret ? { ...definition, header: webhook.signature_header ?? 'X-Hub-Signature-256' } : 'none';
}

interface SignedCurl {
  url: string;
  /** UTF-8 text. */
  body: Buffer;
  contentType: string;
  definition: SchemeDefinition | 'none';
  /** More headers, names in lower case. Those of the signature replace them. */
  headers?: Readonly<Record<string, string>>;
  /** Header that gets a new id, so that the request is not a duplicate. Null: only that of the scheme. */
  idHeader?: string | null;
}

/**
 * A command that sends a body, signed as shellSigning says. Null when no shell can represent the body, or when it cannot carry the time or
 * signature that the scheme puts into it.
 */
export function signedCurl(wanted: SignedCurl): string | null {
  const { url, body, contentType, definition, headers = {}, idHeader = null } = wanted;
  if (body.includes(0)) return null;
  const signing = definition === 'none' ? unsigned(body) : shellSigning(definition, url, body);
  if (signing === null) return null;
  const sent = new Map(signing.headers);
  const before = new Set(signing.before);
  if (idHeader !== null && !sent.has(idHeader)) {
    before.add(SET_ID);
    sent.set(idHeader, [{ name: 'ID' }]);
  }
  const signed = new Set([...sent.keys()].map((name) => name.toLowerCase()));
  // curl leaves out a header without a value.
  for (const [name, value] of Object.entries(headers))
    if (!signed.has(name) && value !== '') sent.set(name, [{ text: value }]);
  const fields = [...sent].map(([name, value]) => `  -H ${shellText([{ text: `${name}: ` }, ...value])} \\`);
  return [
    ...before,
    `BODY=${shellText(signing.body)}`,
    ...signing.after,
    `curl ${shellWord(url)} \\`,
    ...fields,
    // --data-binary would read a file when the body begins with @.
    `  -H ${shellWord(`Content-Type: ${contentType}`)} --data-raw "$BODY"`,
  ].join('\n');
}

function unsigned(body: Buffer): ShellSigning {
  return { before: [], body: [{ text: body.toString() }], after: [], headers: [] };
}
