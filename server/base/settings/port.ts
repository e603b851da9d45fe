/** Checks that a port can be listened on, and explains why not. */
import { createServer } from 'node:net';
import { OperatorError } from '../../model/fault.ts';

/** Another program listens on the port. */
export class PortInUseError extends OperatorError {}

/**
 * Rejects with OperatorError if the port is unavailable. The probe listens without SO_REUSEPORT: serving processes use that option, and a
 * second installation would silently take half of the traffic.
 * @param setting PORT or METRICS_PORT, for the message.
 */
export function probePort(setting: string, host: string, port: number): Promise<void> {
  const probe = createServer();
  return new Promise((resolve, reject) => {
    probe.once('error', (error) => reject(portError(setting, host, port, error)));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve()));
  });
}

/** Explains why listening failed, with the setting that fixes it. */
export function portError(setting: string, host: string, port: number, error: Error): OperatorError {
  const { code } = error as NodeJS.ErrnoException;
  const hostSetting = setting.replace('PORT', 'HOST');
  if (code === 'EADDRINUSE')
    return new PortInUseError(
      `${setting} ${port} on ${host} is in use by another program`,
      `stop it or set ${setting}`,
    );
  if (code === 'EACCES')
    return new OperatorError(
      `${setting} ${port} needs privileges that this user does not have`,
      'choose one above 1023',
    );
  return new OperatorError(
    `${hostSetting} ${host} cannot be listened on (${code})`,
    `set ${hostSetting} to an address of this machine`,
  );
}
