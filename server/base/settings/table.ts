/** The table of all settings. The tables of the guide and `.env.example` are generated from it; a test fails if they differ. */
import { monitoringSettings } from './rows/monitoring.ts';
import { databaseSettings, processesSettings } from './rows/processes.ts';
import { deliverySettings, limitsSettings, receivingSettings } from './rows/receiving.ts';
import { signInSettings } from './rows/sign-in.ts';
import type { Setting } from './values.ts';

/** In the order in which they are shown. */
export const settingGroups: readonly { title: string; settings: Record<string, Setting> }[] = [
  { title: 'Addresses and processes', settings: processesSettings },
  { title: 'Database and keys', settings: databaseSettings },
  { title: 'Users and sign-in', settings: signInSettings },
  { title: 'Limits of clients', settings: limitsSettings },
  { title: 'Receiving events', settings: receivingSettings },
  { title: 'Delivery and retention', settings: deliverySettings },
  { title: 'Monitoring', settings: monitoringSettings },
];

export const settingTable = {
  ...processesSettings,
  ...databaseSettings,
  ...signInSettings,
  ...limitsSettings,
  ...receivingSettings,
  ...deliverySettings,
  ...monitoringSettings,
} as const satisfies Record<string, Setting>;
