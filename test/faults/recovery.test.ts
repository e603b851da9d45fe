/** One Weir with one process and its embedded Postgres: work that takes long survives a kill, and a backup survives everything. */
import { chainOf } from '../helpers/chain.ts';
import { backupTests } from './recovery/backup.ts';
import { connectionTests } from './recovery/connections.ts';
import { filterTests } from './recovery/filters.ts';
import { jobTests } from './recovery/jobs.ts';
import { pointInTimeTests } from './recovery/point-in-time.ts';

const chain = chainOf(undefined, { WORKERS: 1 });

connectionTests(chain);
backupTests(chain);
filterTests(chain);
jobTests(chain);
pointInTimeTests(chain);
