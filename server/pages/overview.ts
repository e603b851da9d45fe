/** GET /: current activity and pending tasks. */

import type { History } from '../live/counters.ts';
import { HISTORY_SECONDS, type Second } from '../live/counters.ts';
import { chart } from './chart.ts';
import { namesOf } from './names.ts';
import { type Page, view } from './page.ts';

const frame = { width: 400, height: 130, left: 40, bottom: 18 };
const EVENTS_SHOWN = 8;

/** @param history the last minutes of all processes of this machine. */
export function overviewPage(history: History): Page {
  return async ({ call }) => {
    const { seconds, latest } = history;
    const [listed, rejections, counted] = await Promise.all([
      call('listEvents', { query: { limit: String(EVENTS_SHOWN) } }),
      call('listRejections', { query: { limit: '5' } }),
      // The primary counts deliveries while a page is open. The first visitor counts directly instead of waiting for the primary.
      latest?.deliveries ?? call('countDeliveries').then((called) => (called.kind === 'done' ? called.body : null)),
    ]);
    const events = listed.kind === 'done' ? listed.body.items : [];
    const ids = events.map((event) => event.webhook_id);
    return view('overview', 'Overview', {
      live: latest,
      deliveries: counted,
      traffic: chart(
        {
          accepted: perSecond(seconds, 'accepted'),
          rejected: perSecond(seconds, 'rejected'),
          limited: perSecond(seconds, 'limited'),
        },
        HISTORY_SECONDS,
        frame,
      ),
      commit: chart(
        {
          median: seconds.map((second) => second.commit_p50_ms),
          '99th percentile': seconds.map((second) => second.commit_p99_ms),
        },
        HISTORY_SECONDS,
        frame,
      ),
      queue: chart({ waiting: seconds.map((second) => second.queue_events) }, HISTORY_SECONDS, frame),
      events,
      rejections: rejections.kind === 'done' ? rejections.body.items : [],
      webhooks: await namesOf(call, 'listWebhooks', ids),
    });
  };
}

function perSecond(seconds: readonly Second[], name: 'accepted' | 'rejected' | 'limited'): number[] {
  return seconds.map((second) => (second[name] * 1000) / Math.max(1, second.duration_ms));
}
