/** What an operator does while Weir serves, in the middle of faults: commands, upgrades, and rotations of the key. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { advisoryLocks, unlessElsewhere } from '../../../../server/store/advisory-locks.ts';
import { dropOldPartitions } from '../../../../server/store/retention/drop-partitions.ts';
import { removeExpiredEvents } from '../../../../server/store/retention/retention.ts';
import { spawnWeir } from '../../../helpers/weir.ts';
import type { Fault } from '../faults.ts';
import { readStored } from '../stored.ts';
import type { Instance } from '../world/instance.ts';
import { RETENTION_DAYS } from '../world/midnight.ts';
import type { World } from '../world/world.ts';

/** Runs a command on the machine of the first instance, with a way to Postgres that has no link. A fault may make it fail, but not throw. */
export async function command({ instances, history }: World, ...words: string[]): Promise<boolean> {
  const { settings, conninfo } = instances[0]!.parts;
  const child = spawnWeir(
    { ...settings, DATABASE_URL: conninfo },
    { command: words, entry: instances[0]!.parts.entry },
  );
  const code = await child.ended;
  const text = [...child.lines.slice(-5), child.stderr()].join('\n');
  if (/\n\s+at /.test(text)) history.observe('a command has no error of the program', `${words}: ${text}`);
  history.note(`weir ${words[0]} ${words[1]}: ${code} ${code === 0 ? '' : text}`);
  return code === 0;
}

export const operationFaults = {
  'an upgrade': {
    weight: 2,
    async start({ instances, upgrade }) {
      await upgrade();
      const up = instances.filter(({ isUp }) => isUp);
      for (const { weir } of up) weir.signal('SIGHUP');
      return { what: `of ${up.length} instances` };
    },
  },
  'a backup is restored': {
    weight: 2,
    needs: ({ cell }) => !cell,
    async start(world, draw) {
      const name = `restored_${draw.between(1, 2 ** 30)}`;
      const file = join(world.folder, name);
      const sentAt = Date.now();
      if (!(await command(world, 'backup', file))) return { what: 'without a backup' };
      const home = world.servers[0]!;
      try {
        await home.database.query({ text: `create database ${name}` });
        if (!(await command(world, 'restore', file, '--into', home.conninfo(name)))) return { what: 'not restored' };
        const stored = await readStored([home.conninfo(name)]);
        world.history.backups.push({ sentAt, stored });
        return { what: `${stored.events.length} events` };
      } catch {
        return { what: 'interrupted' };
      } finally {
        await home.database.query({ text: `drop database if exists ${name} with (force)` }).catch(() => {});
      }
    },
  },
  'retention runs': {
    weight: 3,
    needs: ({ midnight }) => midnight,
    /** As the primary runs it a minute after its start, and every hour. */
    async start({ servers, history }) {
      const now = Date.now() + history.offsetMs;
      const { database } = servers[0]!;
      const retain = async () => {
        const { busy } = await dropOldPartitions(database, RETENTION_DAYS, now);
        await removeExpiredEvents(database, RETENTION_DAYS, now);
        if (busy === null) history.retentions.push(now);
      };
      return unlessElsewhere(database, advisoryLocks.maintenance, retain).then(
        () => ({ what: `${history.retentions.length} times so far` }),
        (error: Error) => ({ what: `interrupted: ${error.message}` }),
      );
    },
  },
  'the key is rotated': {
    weight: 2,
    async start(world) {
      const { instances } = world;
      const [previous, next] = [instances[0]!.parts.settings.SECRETS_KEY!, randomBytes(32).toString('base64')];
      if (world.isRotatingKey) return null;
      world.isRotatingKey = true;
      // With several machines each can read what the others write, before one of them writes with the next key.
      if (instances.length > 1) await restartWith(world, { SECRETS_KEY: previous, SECRETS_KEY_PREVIOUS: next });
      await restartWith(world, { SECRETS_KEY: next, SECRETS_KEY_PREVIOUS: previous });
      const heal = async () => {
        for (let tries = 0; !(await command(world, 'keys', 'rotate')) && tries < 60; tries++);
        for (const { parts } of instances) Reflect.deleteProperty(parts.settings, 'SECRETS_KEY_PREVIOUS');
        world.isRotatingKey = false;
      };
      return { what: `at ${instances.length} instances`, heal };
    },
  },
} satisfies Record<string, Fault>;

async function restartWith(
  { instances }: World,
  keys: { SECRETS_KEY: string | number; SECRETS_KEY_PREVIOUS: string | number },
) {
  const restart = async (instance: Instance) => {
    Object.assign(instance.parts.settings, keys);
    await instance.end('SIGTERM');
    await instance.start();
  };
  await Promise.all(instances.map(restart));
}
