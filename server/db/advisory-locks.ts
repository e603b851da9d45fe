/** Postgres advisory locks that Weir takes, each until the end of its transaction. Listed in one table, so that every number is unique. */
export const advisoryLocks = {
  /** Changes to the schema and creation of partitions. */
  schema: 7_236_451,
  /** From reading the head of the audit log until the entry after it is committed. */
  audit: 7_236_452,
  /** Changes to the set of administrators. */
  administrators: 7_236_453,
  /** Changes to subscriptions: two changes, by webhook and by agent, lock rows in different orders and could deadlock. */
  subscriptions: 7_236_454,
  /** From checking an agent's name until it is committed: names of active agents are unique. */
  agentNames: 7_236_456,
  /** Writes to the ring of rejections, so that its limits are exact and writers cannot deadlock. */
  rejections: 7_236_455,
  /** Archiving an old partition, until it is dropped: one machine at a time. */
  archive: 7_236_459,
  /** The hourly maintenance: one machine at a time. */
  maintenance: 7_236_460,
  /** Recording the current SECRETS_KEY. */
  secretsKeys: 7_236_458,
  /** Deciding which alerts begin and end: one machine at a time. */
  alerts: 7_236_466,
} as const;
