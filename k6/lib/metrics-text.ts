/** Parses the Prometheus text of Weir's metrics page. */

/** Metrics that soak.ts watches. */
export const watched = {
  memory: 'weir_resident_bytes',
  connections: 'weir_connections',
  queue: 'weir_queue_events',
} as const;

/** Sums all samples of one metric over its labels. Throws an Error when there is no sample. */
export function figureOf(name: string, text: string): number {
  const samples = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  if (samples.length === 0) throw new Error(`METRICS_URL has no ${name}; it must be the metrics page of Weir`);
  return samples.reduce((sum, line) => sum + Number(line.replace(/^.*[ }]/, '')), 0);
}

/** Labels of the first sample of a metric; empty when there is no sample. */
export function labelsOf(name: string, text: string): Record<string, string> {
  const [, labels = ''] = new RegExp(`^${name}\\{(.*)\\} `, 'm').exec(text) ?? [];
  return Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, value]) => [label, value]));
}
