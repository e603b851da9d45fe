/**
 * Entry point of the trial. Under root, operate/primary/serving-user.ts runs it as the serving user. It loads the addons of a serving
 * process, connects and listens once, and prints failures as JSON. When it cannot be loaded it prints no JSON.
 */
import { accessSync, constants } from 'node:fs';
import { text } from 'node:stream/consumers';
import 'uWebSockets.js';
import { probePort } from '../../base/settings/port.ts';
import type { OperatorError } from '../../model/fault.ts';
import { withoutSecrets } from '../../store/connect/conninfo.ts';
import { openDatabase } from '../../store/connect/pool.ts';
import { isPassing } from '../../store/connect/unavailable.ts';
import type { TrialOrder, TrialResult } from '../primary/serving-user.ts';

const { conninfo, host, port } = JSON.parse(await text(process.stdin)) as TrialOrder;
process.stdout.write(JSON.stringify((await tryDatabase()) ?? (await tryPort()) ?? tryFiles() ?? { failed: null }));

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
    (error: OperatorError) => ({ failed: 'port', reason: error.finding }),
  );
}

/** Files of certificates that Node and OpenSSL read. Node only warns when it cannot read them, and requests to an identity provider fail. */
function tryFiles(): TrialResult | null {
  for (const name of ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']) {
    const path = process.env[name];
    try {
      if (path) accessSync(path, constants.R_OK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EACCES')
        return { failed: 'file', reason: `${path}, which ${name} names` };
    }
  }
  return null;
}
