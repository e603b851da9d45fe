/** Changes the webhook of a rejection so that it verifies, and checks the similar rejections again. */
import type { z } from 'zod';
import { invalid, problem, type Result } from '../../../base/http/problem.ts';
import { fixesOf } from '../../../receive/rejections/fixes.ts';
import type { Rejections } from '../../../receive/rejections/recheck.ts';
import type { Actor } from '../../../store/audit/actor.ts';
import { findRejection } from '../../../store/queries/rejections/rejections.ts';
import { type WebhookParts, Webhooks } from '../webhooks/service.ts';
import type { fixInput } from './schema.ts';

type FixInput = z.output<typeof fixInput>;

/** How long the secret that a fix replaces stays valid: other senders of the webhook may have it. */
const OVERLAP_SECONDS = 86_400;

interface Fixed {
  webhook_id: string;
  checked: number;
  verified: number;
}

/** Makes the change in one audited step; the re-check of the similar rejections follows and has an entry of its own. */
export async function fixRejection(
  parts: WebhookParts,
  rejections: Rejections,
  id: string,
  input: FixInput,
  actor: Actor,
): Promise<Result<Fixed>> {
  const rejection = await findRejection(parts.database.query, id);
  if (rejection === undefined) return problem('rejection_unknown');
  const fix = fixesOf(rejection).find(({ kind }) => kind === input.kind);
  if (fix === undefined) return invalid('/kind', 'This is not among the fixes of the rejection.');
  if (input.kind === 'set_scheme' && !fix.schemes.includes(input.signature_scheme))
    return invalid('/signature_scheme', `The fix takes one of these schemes: ${fix.schemes.join(', ')}.`);
  const patch =
    input.kind === 'use_header'
      ? { signature_header: rejection.header }
      : input.kind === 'set_scheme'
        ? { signature_scheme: input.signature_scheme, public_key: input.public_key }
        : {};
  const secret = input.kind === 'use_header' ? null : input.secret;
  const overlap = input.kind === 'set_secret' ? OVERLAP_SECONDS : 0;
  const changed = await new Webhooks(parts, actor).reconfigure(rejection.webhook_id, patch, secret, overlap);
  if (changed.kind === 'problem') return changed;
  const again = await rejections.recheckSimilar(rejection, { fix: input.kind, ...patch }, actor);
  if (again.kind === 'problem') return again;
  return { kind: 'done', value: { webhook_id: rejection.webhook_id, ...again.value } };
}
