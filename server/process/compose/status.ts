/** The parts of a process that tell how the installation does. */

import { statusOperations } from '../../api/status/operations.ts';
import type { Doctor } from '../../doctor/ask.ts';
import type { History } from '../../live/history.ts';
import type { Base } from '../base.ts';

export function composeStatus({ settings, conninfo, database, limiter }: Base, history: History, doctor: Doctor) {
  return {
    operations: statusOperations({
      settings,
      conninfo,
      database,
      history,
      doctor,
      rateLimitStore: () => limiter.health(),
    }),
    close: () => doctor.close(),
  };
}
