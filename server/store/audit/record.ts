/** The audit log: every change is recorded in the same transaction and chained by hash to all earlier entries. */
import { createHash } from 'node:crypto';
import { userInfo } from 'node:os';
import type { z } from 'zod';
import type { actorSchema, targetSchema } from '../../model/audit.ts';
import { advisoryLocks, takeLock } from '../advisory-locks.ts';
import type { Database, Query } from '../connect/pool.ts';
import { readAuditHead } from '../queries/users/audit.ts';

/** The author of a change, as the audit log stores it. */
export interface Actor extends z.output<typeof actorSchema> {
  /** `command`: a person with a shell on this machine; `system`: Weir itself; `anyone`: not signed in. */
  kind: 'user' | 'token' | 'agent' | 'command' | 'system' | 'anyone';
  /** Called in the transaction of each change; if it rejects, the change is rolled back. Not part of the entry. */
  confirm?: (query: Query) => Promise<void>;
}

/**
 * The actor for commands run on this machine.
 * @param name of the operating-system user
 */
export function commandActor(name = systemName()): Actor {
  return { kind: 'command', id: null, name, token_id: null, address: null, request_id: null };
}

export const systemActor: Actor = { ...commandActor('weir'), kind: 'system' };

/** The operating-system user of this process. In a container it may have a number but no name. */
export function systemName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}

/** Kinds of actions: what they change. */
export const auditKinds = [
  'account',
  'agent',
  'alert',
  'build',
  'cell',
  'delivery',
  'event',
  'issue',
  'job',
  'rejection',
  'secrets_key',
  'session',
  'token',
  'user',
  'webhook',
] as const;
export type AuditKind = (typeof auditKinds)[number];

/** A change. `before` and `after` contain only what users may see: never a secret, a hash of one, or a token. */
export interface AuditRecord {
  /** E.g. `webhook.create`. */
  action: `${AuditKind}.${string}`;
  target: z.output<typeof targetSchema>;
  before?: object | null;
  after?: object | null;
}

/** Previous hash of the first entry. */
export const NO_HASH: Buffer = Buffer.alloc(32);

/** Appends an entry. Other writers wait until this transaction ends, so call it last, just before the commit. */
export async function record(query: Query, actor: Actor, change: AuditRecord): Promise<void> {
  const { confirm, ...who } = actor;
  await confirm?.(query);
  await takeLock(query, advisoryLocks.audit);
  const head = await readAuditHead({ query });
  const { action, target, before = null, after = null } = change;
  const entry = JSON.stringify({ at: new Date().toISOString(), action, actor: who, target, before, after }, storable);
  const previousHash = head === undefined ? NO_HASH : Buffer.from(head.hash, 'hex');
  await query({
    text: 'insert into audit_log (number, entry, hash, previous_hash) values ($1, $2, $3, $4)',
    values: [(head?.number ?? 0) + 1, entry, chainHash(previousHash, entry), previousHash],
  });
}

/** Records that the processes serve this build, unless it is the newest one that was recorded. Rejects with DatabaseUnavailable. */
export function recordBuild(database: Database, name: string): Promise<void> {
  return database.transaction(async (query) => {
    // Several machines may start it at the same time.
    await takeLock(query, advisoryLocks.audit);
    const [newest] = await query<{ name: string }>({
      text: `
        select entry -> 'target' ->> 'name' as name
        from audit_log
        where action collate "C" = 'build.start'
        order by number desc
        limit 1`,
    });
    if (newest?.name === name) return;
    await record(query, systemActor, {
      action: 'build.start',
      target: { kind: 'build', id: null, name },
      before: newest === undefined ? null : { build: newest.name },
      after: { build: name },
    });
  });
}

/** Postgres cannot read any member of a JSON text that contains NUL or half of a surrogate pair. */
function storable(_name: string, value: unknown): unknown {
  return typeof value === 'string' ? value.replace(/\0|\p{Cs}/gu, '\ufffd') : value;
}

/** The hash of an entry: SHA-256 of the previous hash followed by the entry. @param entry the JSON text exactly as it is stored */
export function chainHash(previousHash: Uint8Array, entry: string): Buffer {
  return createHash('sha256').update(previousHash).update(entry, 'utf8').digest();
}
