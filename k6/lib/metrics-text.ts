/** Prometheus text, as Weir's page of metrics has it. */

/** What soak.ts watches. */
export const watched = {
  memory: 'weir_resident_bytes',
  connections: 'weir_connections',
  queue: 'weir_queue_events',
} as const;

/** The sum over all samples of one metric, whatever their labels. Throws an Error when the text has none. */
export function figureOf(name: string, text: string): number {
  const samples = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  if (samples.length === 0) throw new Error(`METRICS_URL has no ${name}; it must be Weir's page of metrics`);
  return samples.reduce((sum, line) => sum + Number(line.replace(/^.*[ }]/, '')), 0);
}
