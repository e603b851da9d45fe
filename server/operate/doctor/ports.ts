/** Checks whether the two ports are free, used by Weir or used by another program, and whether Weir responds at its public URL. */

import { probePort } from '../../base/settings/port.ts';
import type { Settings } from '../../base/settings/read.ts';
import { advice, type Check, ok, problem, problemOf } from '../../model/check.ts';
import { OperatorError } from '../../model/fault.ts';

const ANSWER_TIMEOUT_MS = 3_000;

/** `running`: whether Weir responds on HOST and PORT. */
export async function checkPorts(settings: Settings): Promise<{ checks: Check[]; running: boolean }> {
  const { HOST, PORT, METRICS_HOST, METRICS_PORT } = settings;
  if (PORT === METRICS_PORT)
    return {
      checks: [problem('port', `PORT and METRICS_PORT are both ${PORT}`, 'set METRICS_PORT to another port')],
      running: false,
    };
  const [port, metrics] = await Promise.all([
    checkPort('PORT', HOST, PORT, '/healthz', /^\{"status":"ok"\}$/),
    checkPort('METRICS_PORT', METRICS_HOST, METRICS_PORT, '/metrics', /^weir_build_info\{/m),
  ]);
  const checks = [port.check, metrics.check];
  if (port.heldByWeir) checks.push(await checkReach(settings.FRONTEND_PUBLIC_API_URL));
  return { checks, running: port.heldByWeir };
}

async function checkPort(setting: 'PORT' | 'METRICS_PORT', host: string, port: number, path: string, ours: RegExp) {
  const name = setting.toLowerCase();
  try {
    await probePort(setting, host, port);
    return { check: ok(name, `${port} on ${host} is free`), heldByWeir: false };
  } catch (error) {
    const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
    const url = `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}${path}`;
    if (ours.test((await textAt(url)) ?? ''))
      return { check: ok(name, `${port} on ${host} is used by Weir itself`), heldByWeir: true };
    if (!(error instanceof OperatorError)) throw error;
    return { check: problemOf(name, error, `set ${setting}`), heldByWeir: false };
  }
}

/** Tests the URL from this machine, since doctor cannot test it from a browser's network. */
async function checkReach(apiUrl: string): Promise<Check> {
  if ((await textAt(`${apiUrl}/healthz`)) === '{"status":"ok"}')
    return ok('reach', `Weir answers at ${apiUrl} from this machine`);
  return advice(
    'reach',
    `Weir runs, but does not answer at ${apiUrl} from this machine`,
    'check the proxy and the host name, or set FRONTEND_PUBLIC_API_URL (or PUBLIC_URL) to the address that browsers and senders use',
  );
}

/** The body of a 200 response; null for any other result. */
async function textAt(url: string): Promise<string | null> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS), redirect: 'error' });
    return answer.status === 200 ? await answer.text() : null;
  } catch {
    return null;
  }
}
