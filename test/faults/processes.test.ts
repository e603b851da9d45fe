/** One Weir whose processes are replaced, frozen, ended and held up in turn: it serves, and loses nothing. */
import { chainOf } from '../helpers/chain.ts';
import { diedTests, logReaderTests, memoryTests } from './processes/died.ts';
import { frozenTests } from './processes/frozen.ts';
import { endTests, restartTests } from './processes/signals.ts';

const chain = chainOf(undefined, { PROCESS_SILENT_SECONDS: 3_600, DRAIN_SECONDS: 60 });

diedTests(chain);
restartTests(chain);
frozenTests(chain);
endTests(chain);
memoryTests(chain);
logReaderTests(chain);
