/** The start message on a terminal. */
import type { Settings } from '../settings/read.ts';

/** Prints Weir's URL and the next step. @param setupAddress null when an administrator exists. */
export function greet(settings: Settings, setupAddress: string | null, out: { write(text: string): unknown }): void {
  out.write(
    [
      '',
      `  Weir receives webhooks at ${settings.FRONTEND_PUBLIC_API_URL}`,
      `  Pages:                    ${settings.PUBLIC_URL}`,
      '',
      ...(setupAddress === null ? [] : [`  Create the administrator: ${setupAddress}`, '']),
      '  Create a webhook:   npx weir webhook add --name github --generate-secret',
      '  Send test events:   npx weir send URL --secret SECRET --github-examples',
      `  Metrics:            http://${settings.METRICS_HOST}:${settings.METRICS_PORT}/metrics`,
      '  Stop:               Ctrl-C',
      '',
      '',
    ].join('\n'),
  );
}
