/** Waits until the condition holds; asks every quarter of a second. @throws Error naming what it waited for */
export async function until<T>(what: string, condition: () => T | undefined | false, seconds = 60): Promise<T> {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = condition();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > end) throw new Error(`waited ${seconds} s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}
