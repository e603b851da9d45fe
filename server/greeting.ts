/** The first words on a terminal. */
import type { Settings } from './config.ts';

/** Says where Weir is and what to type next. */
export function greet(settings: Settings, out: { write(text: string): unknown }): void {
  out.write(
    [
      '',
      `  Weir receives webhooks at ${settings.FRONTEND_PUBLIC_API_URL}`,
      '',
      '  Make an endpoint:   npx weir webhook add --name github --generate-secret',
      '  Send to it:         npx weir send URL --secret SECRET --github-examples',
      `  Metrics:            http://${settings.METRICS_HOST}:${settings.METRICS_PORT}/metrics`,
      '  Stop:               Ctrl-C',
      '',
      '',
    ].join('\n'),
  );
}
