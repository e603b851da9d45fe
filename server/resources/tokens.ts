/** API tokens. */
import { z } from 'zod';
import { createdAt, email, idOf, nameOf } from './fields.ts';
import { roles } from './users.ts';

export const tokenSchema = z
  .object({
    id: idOf('token'),
    user_id: idOf('user'),
    user_email: email,
    name: nameOf('token'),
    role: z.enum(roles).describe('highest role of the token; the role of its user limits it as well'),
    state: z
      .enum(['active', 'suspended', 'expired', 'revoked'])
      .describe('suspended: refused until its user signs in at the OpenID Connect provider again'),
    created_at: createdAt,
    expires_at: z.iso.datetime().nullable().describe('when it expires; null: never'),
    last_used_at: z.iso.datetime().nullable().describe('last request with the token, to the minute; null: none yet'),
    revoked_at: z.iso.datetime().nullable().describe('when it was revoked; null: not revoked'),
  })
  .meta({ id: 'Token' });
