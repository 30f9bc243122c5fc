/** Part of a list, as every list of the API answers. */

export interface Listed<T> {
  items: T[];
  next_cursor: string | null;
}
