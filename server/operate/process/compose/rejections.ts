/** The parts of a process that keep refused signatures and explain them. */

import { rejectionOperations } from '../../../manage/api/rejections/operations.ts';
import { Diagnoser } from '../../../receive/rejections/diagnose.ts';
import { RejectionSampler } from '../../../receive/rejections/sampler.ts';
import { derivedKeys } from '../../../store/secrets/keys.ts';
import type { Base } from '../base.ts';

/** @param workerFile compiled workers/diagnose.js */
export function composeRejections(
  { settings, keys: secretsKeys, metrics, observe, database, changes }: Base,
  workerFile: string,
) {
  const keys = derivedKeys(secretsKeys, 'webhook-secrets');
  const diagnoser = new Diagnoser(workerFile);
  const diagnose = diagnoser.diagnose.bind(diagnoser);
  const keeper = new RejectionSampler({
    database,
    keys,
    diagnose,
    observer: observe.rejections,
    limits: {
      rejectionsMax: settings.REJECTIONS_KEPT_MAX,
      webhookRejectionsMax: Math.ceil(settings.REJECTIONS_KEPT_MAX / 5),
      bytesMax: settings.REJECTIONS_KEPT_BYTES_MAX,
    },
    bodyBytesMax: settings.REJECTION_BODY_BYTES_MAX,
    publicUrl: settings.FRONTEND_PUBLIC_API_URL,
    nowMs: () => performance.now(),
  });
  metrics.gauge('weir_rejection_bytes_held', () => keeper.waitingBytes);

  return {
    offer: keeper.offer.bind(keeper),
    operations: rejectionOperations({
      database,
      changes,
      keys,
      key: keys[0]!,
      diagnose,
      retentionDays: settings.RETENTION_DAYS,
    }),
    close: async () => {
      await keeper.close();
      await diagnoser.close();
    },
  };
}
