/**
 * Entry point of the trial: under root, primary/serving-user.ts runs it as the user that is to serve. It loads all that a serving process
 * loads, connects and listens once, and prints what failed as JSON. When it cannot even be loaded it prints none.
 */
import { text } from 'node:stream/consumers';
import './app.ts';
import { withoutSecrets } from '../db/conninfo.ts';
import { openDatabase } from '../db/pool.ts';
import type { TrialOrder, TrialResult } from '../primary/serving-user.ts';
import { probePort } from '../settings/port.ts';

const { conninfo, host, port } = JSON.parse(await text(process.stdin)) as TrialOrder;
process.stdout.write(JSON.stringify((await tryDatabase()) ?? (await tryPort()) ?? { failed: null }));

async function tryDatabase(): Promise<TrialResult | null> {
  const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-trial' });
  try {
    await database.query({ text: 'select 1' });
    return null;
  } catch (error) {
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
