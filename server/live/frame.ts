/** One server-sent event as text (WHATWG HTML, section 9.2). */

/** What keeps a connection from looking idle to a proxy. */
export const HEARTBEAT = ':\n\n';

/**
 * @param data a line: JSON without line ends.
 * @param id what EventSource sends as Last-Event-ID when it connects again.
 */
export function frame(event: string, data: string, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${data}\n\n`;
}
