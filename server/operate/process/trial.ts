/**
 * Entry point of the trial. Under root, operate/primary/forks.ts runs it as the intended serving user. It loads everything that a serving
 * process loads, connects and listens once, and prints failures as JSON. When it cannot be loaded it prints no JSON.
 */
import { text } from 'node:stream/consumers';
import './app.ts';
import { probePort } from '../../base/settings/port.ts';
import { withoutSecrets } from '../../store/connect/conninfo.ts';
import { openDatabase } from '../../store/connect/pool.ts';
import { isPassing } from '../../store/connect/unavailable.ts';
import type { TrialOrder, TrialResult } from '../primary/forks.ts';

const { conninfo, host, port } = JSON.parse(await text(process.stdin)) as TrialOrder;
process.stdout.write(JSON.stringify((await tryDatabase()) ?? (await tryPort()) ?? { failed: null }));

async function tryDatabase(): Promise<TrialResult | null> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-trial' });
  try {
    await database.query({ text: 'select 1' });
    return null;
  } catch (error) {
    // A database that is away says nothing about the user.
    if (isPassing(error)) return null;
    return { failed: 'database', reason: withoutSecrets((error as Error).message, conninfo) };
  } finally {
    await database.close();
  }
}

async function tryPort(): Promise<TrialResult | null> {
  return probePort('PORT', host, port).then(
    () => null,
    (error: Error) => ({ failed: 'port', reason: error.message }),
  );
}
