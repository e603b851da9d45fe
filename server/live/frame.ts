/** One server-sent event as text (WHATWG HTML, section 9.2). */

/** Comment that keeps a proxy from treating the connection as idle. */
export const HEARTBEAT = ':\n\n';

/**
 * @param data one line: JSON without line ends
 * @param id sent by EventSource as Last-Event-ID when it reconnects
 */
export function frame(event: string, data: string, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${data}\n\n`;
}
