/** Secrets of a webhook: as given, their rotation, and what is shown of them. */
import { z } from 'zod';
import { between, createdAt, secretText, timeOrNull } from './fields.ts';

const SECRET_BYTES_MAX = 1_024;
const OVERLAP_SECONDS_MAX = 31_536_000;
export const secretInput = secretText(SECRET_BYTES_MAX).refine(
  // A text with too many characters is reported once.
  (given) => given.length > SECRET_BYTES_MAX || Buffer.byteLength(given) <= SECRET_BYTES_MAX,
  `Give at most ${SECRET_BYTES_MAX} bytes.`,
);

export const rotateInput = z.strictObject({
  secret: secretInput
    .nullable()
    .default(null)
    .describe('the new secret; absent: generated, and shown only in the response'),
  overlap_seconds: between(0, OVERLAP_SECONDS_MAX)
    .default(0)
    .describe('how long the previous secret stays valid beside the new one'),
});

export type Rotation = z.output<typeof rotateInput>;

export const secretSchema = z.object({
  slot: z.enum(['current', 'previous']).describe('previous: valid until expires_at beside the current secret'),
  created_at: createdAt,
  expires_at: timeOrNull('when it expires; null: never'),
  uses: z
    .int()
    .describe(
      'number of requests that it verified, with a delay of a few seconds, of up to 90 while thousands of webhooks have events, and of up to 6 minutes from 20,000 on',
    ),
  last_used_at: timeOrNull('when it last verified a request; null: never'),
});
