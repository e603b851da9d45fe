/** Entry point of a serving process. The primary starts in cli/weir.ts (`weir start`). */
import { runProcess } from './operate/process/process.ts';

runProcess();
