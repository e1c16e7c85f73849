/** The environment of this process for a program that it starts. @param hidden names that the program has no use for */
export function environmentWithout(hidden: RegExp): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !hidden.test(name)));
}
