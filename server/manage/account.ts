/** /api/v1/account: whoever asks. */
import { z } from 'zod';
import { done, operation } from '../api/operation.ts';
import type { Csrf } from '../auth/csrf.ts';
import { roles } from '../auth/roles.ts';

const accountSchema = z.object({
  id: z.guid(),
  email: z.string(),
  name: z.string(),
  role: z.enum(roles).describe('in force for this request: of the user, or of the token where that is less'),
  csrf_token: z
    .string()
    .nullable()
    .describe('of a cookie session: changes carry it in the header X-CSRF-Token; null for tokens, which need none'),
});

export function accountOperations({ csrf }: { csrf: Csrf }) {
  return {
    showAccount: operation({
      answers: { 200: accountSchema },
      handle: async ({ who: { id, email, name, role, via } }) => {
        const csrfToken = via.kind === 'session' ? csrf.token(via.sessionId) : null;
        return done(200, { id, email, name, role, csrf_token: csrfToken });
      },
    }),
  };
}
