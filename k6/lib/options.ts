/** How k6 runs the scripts, and when it calls a run failed. */
import type { Options } from 'k6/options';
import type { LoadSettings } from './settings.ts';

/** One pass by one virtual user; every check must hold. */
export const smokeOptions: Options = {
  vus: 1,
  iterations: 1,
  thresholds: { checks: ['rate==1'] },
};

/**
 * A constant arrival rate: a slow answer does not slow the next request down, so that the latencies hide nothing. An
 * iteration for which no virtual user is free is dropped, and one dropped iteration fails the run: the rate was not sent.
 */
export function loadOptions(settings: LoadSettings): Options {
  return {
    discardResponseBodies: true,
    scenarios: {
      load: {
        executor: 'constant-arrival-rate',
        rate: settings.ratePerSecond,
        timeUnit: '1s',
        duration: settings.duration,
        preAllocatedVUs: settings.vus,
      },
    },
    thresholds: {
      http_req_failed: ['rate<0.001'],
      http_req_duration: ['p(99)<60'],
      dropped_iterations: ['count==0'],
    },
    summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'max'],
  };
}
