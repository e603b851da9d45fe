/** The JSON body of a request to ALERT_URL. */
import type { AlertRow } from '../../store/queries/alerts/alerts.ts';
import { describeAlert } from './describe.ts';

type MessageType = 'alert.began' | 'alert.ended';

/** @param nowMs time of the message, Unix milliseconds. */
export function alertBody(type: MessageType, alert: AlertRow, publicUrl: string, nowMs: number): string {
  const { id, text, ...described } = describeAlert(alert, publicUrl);
  const mark = type === 'alert.began' ? 'Alert' : 'Ended';
  return JSON.stringify({
    type,
    timestamp: new Date(nowMs).toISOString(),
    text: `${mark}: ${text} ${described.url}`,
    alert_id: id,
    ...described,
  });
}

export function testBody(publicUrl: string, nowMs: number): string {
  const url = `${publicUrl}/status#alerts`;
  return JSON.stringify({
    type: 'alert.test',
    timestamp: new Date(nowMs).toISOString(),
    text: `This is a test alert of Weir. ${url}`,
    url,
  });
}
