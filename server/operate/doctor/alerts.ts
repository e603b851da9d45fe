/** Checks of ALERT_URL. */

import { weirCommand } from '../../base/command/name.ts';
import { checkedAddresses } from '../../base/net/checked-address.ts';
import type { Settings } from '../../base/settings/read.ts';
import { advice, type Check, ok, problem } from '../../model/check.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findLastAttempt } from '../../store/queries/alerts/requests.ts';

type AlertSettings = Pick<Settings, 'ALERT_URL' | 'ALERT_SECRET' | 'ALERT_PRIVATE_NETWORKS'>;

const sendTest = () => `run: ${weirCommand()} alert test`;

/** Checks that requests can be sent and that the latest one was. Sends none. */
export async function checkAlerts(database: Pick<Database, 'query'>, settings: AlertSettings): Promise<Check[]> {
  const name = 'alerts';
  const { ALERT_URL, ALERT_SECRET, ALERT_PRIVATE_NETWORKS } = settings;
  if (ALERT_URL === undefined) return [ok(name, 'ALERT_URL is unset: alerts are shown, and not sent')];
  const { host, hostname } = new URL(ALERT_URL);
  const refused = await checkedAddresses(hostname, ALERT_PRIVATE_NETWORKS === 'allow').then(
    () => null,
    (error: Error) => error.message,
  );
  if (refused !== null)
    return [
      problem(
        name,
        `alerts cannot be sent to ${host}: ${refused}`,
        `correct ALERT_URL or ALERT_PRIVATE_NETWORKS, then ${sendTest()}`,
      ),
    ];
  const last = await findLastAttempt(database);
  if (last !== undefined && last.state !== 'sent' && last.last_error !== null)
    return [problem(name, `the latest request to ${host} failed: ${last.last_error}`, sendTest())];
  if (ALERT_SECRET === undefined)
    return [
      advice(
        name,
        `requests to ${host} are not signed`,
        'set ALERT_SECRET if the receiver can verify Standard Webhooks: echo whsec_$(openssl rand -base64 32)',
      ),
    ];
  return [ok(name, `alerts are sent to ${host}`)];
}
