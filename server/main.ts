/** Entry point of a serving process; the primary comes in by `weir start` (cli/start.ts). */
import { runProcess } from './process/process.ts';

runProcess();
