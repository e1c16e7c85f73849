// Renders a Markdown comment as GitHub shows it: its stylesheet, and mermaid for diagrams. script/picture takes the photo.
//   node script/picture.ts COMMENT.md MERMAID.js > page.html
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { marked } from 'marked';

const [, , comment, mermaid] = process.argv;
if (comment === undefined || mermaid === undefined) throw new Error('usage: picture.ts COMMENT.md MERMAID.js');
const css = readFileSync(createRequire(import.meta.url).resolve('github-markdown-css/github-markdown-light.css'), 'utf8');
const body = await marked.parse(readFileSync(comment, 'utf8'), { gfm: true });
const page = body
  .replace(/<pre><code class="language-mermaid">([\s\S]*?)<\/code><\/pre>/g, '<pre class="mermaid">$1</pre>')
  // The folds that are worth a look are open; the long one stays shut.
  .replace(/<details><summary>(checkpoint layout|chain diagram|on the cluster)/g, '<details open><summary>$1');
console.log(`<!doctype html><meta charset="utf-8"><style>${css}
body { margin: 24px; } .box { border: 1px solid #d1d9e0; border-radius: 6px; max-width: 860px; }
.head { background: #f6f8fa; padding: 8px 16px; border-bottom: 1px solid #d1d9e0; border-radius: 6px 6px 0 0; font: 14px sans-serif; color: #59636e; }
.markdown-body { padding: 16px; }</style>
<div class="box"><div class="head"><b>github-actions</b> bot commented now</div><div class="markdown-body">${page}</div></div>
<script>${readFileSync(mermaid, 'utf8')}</script><script>mermaid.initialize({ startOnLoad: true });</script>`);
