/** Postgres's advisory locks that Weir takes, each until its transaction ends. In one table, so that no two are the same number. */
export const advisoryLocks = {
  /** Whoever changes the schema or makes partitions. */
  schema: 7_236_451,
  /** From reading the head of the audit log until the entry after it is committed. */
  audit: 7_236_452,
  /** Whoever changes who is an administrator. */
  administrators: 7_236_453,
  /** Whoever sets subscriptions: two that set them from both sides, in different orders, would wait for each other. */
  subscriptions: 7_236_454,
  /** From looking for an agent's name until it is committed: no two active agents have one name. */
  agentNames: 7_236_456,
  /** Whoever writes to the ring of rejections, so that its limits hold to the row and nobody waits crosswise. */
  rejections: 7_236_455,
  /** Whoever records which key SECRETS_KEY is. */
  secretsKeys: 7_236_458,
} as const;
