"""Texts that a page must show as they are: none of them may run, break out, or be lost."""

HOSTILE = {
    "tag": "<img src=x onerror=\"document.title='ran'\">",
    "script": "</script><script>document.title='ran'</script>",
    "comment": "<!--<script>",
    "closing": "</textarea></template>--> ]]>",
    "quotes": "\"'`${document.title='ran'}\\",
    "entity": "&lt;b&gt;&amp;amp;",
    "nul": "a\x00b\x1b[31mc",
    "bidi": "a\u202ecba\u2066",
    "rtl": "שלום עולם abc",
    "separator": "a\u2028b\u2029c\nd",
    "long": "x" * 20_000,
    "proto": "__proto__",
    "url": "javascript:document.title='ran'",
}
