"""Manual pages (man and mdoc macros) as plain text: enough of roff for NAME, DESCRIPTION and options."""

import re

FONT_PAIRS = {"BR", "RB", "IR", "RI", "BI", "IB", "SB"}
TEXT = {"B", "I", "SM", "R", "MR", "UR", "MT"}
BREAK = {"PP", "P", "LP", "sp", "br", "Pp", "HP", "RS", "RE", "bp", "Bd", "Ed", "El", "Bl", "EE", "EX", "nf", "fi"}
MDOC_INLINE = set(
    "Ar Cm Fl Op Nm Pa Xr Em Sy Ql Dq Sq Li Ns No Ev Va Fa Fn Vt Ic Oo Oc Pq Qq Aq Bq Ta Tn Ux Brq "
    "Do Dc So Sc Po Pc Ao Ac Fx Nx Ox Bx Lk Mt Ad Er Dv Nd Cd An Ap Pf St Qo Qc Bo Bc Bro Brc Ft In Lb".split()
)
MDOC_ONLY = MDOC_INLINE - {"In"}
CHARS = {
    "aq": "'",
    "dq": '"',
    "bu": "*",
    "em": " - ",
    "en": "-",
    "lq": '"',
    "rq": '"',
    "oq": "'",
    "cq": "'",
    "co": "(c)",
    "ti": "~",
    "ha": "^",
    "ga": "`",
    "rs": "\\",
    "mi": "-",
    "hy": "-",
    "ba": "|",
    "or": "|",
    "->": "->",
    "<=": "<=",
    ">=": ">=",
    "mu": "x",
    "at": "@",
    "sh": "#",
    "Do": "$",
    "la": "<",
    "ra": ">",
    "lB": "[",
    "rB": "]",
    "sl": "/",
}


def unescape(s):
    s = re.sub(r'(?<!\\)\\["#].*', "", s)
    s = re.sub(
        r"\\f(\[[^]]*\]|\(..|.)|\\[mFgkM](\[[^]]*\]|\(..)|\\s(\[[^]]*\]|[-+]?\d)|\\[hvwd]'[^']*'|\\[/,&:|^%)tcdup]",
        "",
        s,
    )
    s = re.sub(r"\\\((..)|\\\[([^]]*)\]", lambda m: CHARS.get(m[1] or m[2], ""), s)
    s = re.sub(r"\\\*(\[([^]]*)\]|\((..)|(.))", lambda m: {"lq": '"', "rq": '"'}.get(m[2] or m[3] or "", ""), s)
    return (
        s.replace("\\-", "-")
        .replace("\\'", "'")
        .replace("\\`", "`")
        .replace("\\~", " ")
        .replace("\\ ", " ")
        .replace("\\0", " ")
        .replace("\\.", ".")
        .replace("\\e", "\\")
        .replace("\\\\", "\\")
    )


def split_args(s):
    return [a if a else b for a, b in re.findall(r'"((?:[^"]|"")*)"?|(\S+)', s)]


def mdoc(args, name):
    """One line of mdoc macros as words."""
    out, glue, dash = [], False, False
    for a in args:
        if a in MDOC_INLINE:
            if a == "Fl":
                dash = True
            elif a == "Nm" and len(args) == 1:
                out.append(name)
            elif a in ("Ns", "Pf", "Ap"):
                glue = True
            elif a == "Xr":
                glue = False
            continue
        word = ("-" + a) if dash else a
        if out and (glue or re.fullmatch(r"[.,:;)\]]+", a)):
            out[-1] += word
        else:
            out.append(word)
        glue = dash = False
    return " ".join(out)


def read(roff):
    """{section: [paragraph, ...]}; an item of a list is one paragraph, 'tag: text'."""
    sections, here, para, name = {}, None, [], ""
    tag, want_tag, skip = None, False, None

    def flush():
        nonlocal para, tag
        text = " ".join(" ".join(para).split())
        if here is not None and (text or tag):
            sections[here].append(f"{tag}: {text}" if tag and text else tag or text)
        para, tag = [], None

    for line in roff.replace("\\\n", "").split("\n"):
        if skip:
            skip = None if line.startswith(skip) else skip
            continue
        m = re.match(r"[.'][ \t]*([A-Za-z]{1,3}|\\\"|\.)?[ \t]*(.*)", line)
        if not m or line[0] not in ".'" or (line[0] == "'" and not m[1]):
            text = unescape(line).strip()
            if not text:
                flush()
            elif want_tag:
                tag, want_tag = text, False
            else:
                para.append(text)
            continue
        macro, rest = m[1] or "", m[2]
        if macro in ("de", "ig", "am") and line[1] != " ":
            skip = ".."
            continue
        if macro == "TS":
            skip = ".TE"
            continue
        args = [unescape(a) for a in split_args(rest)]
        if macro in ("SH", "Sh"):
            flush()
            here = " ".join(args).upper()
            sections.setdefault(here, [])
            want_tag = False
        elif macro in ("SS", "Ss"):
            flush()
            para = [" ".join(args) + "."] if args else []
            flush()
        elif macro in ("TP", "TQ"):
            flush()
            want_tag = True
        elif macro == "IP":
            flush()
            tag = args[0] if args and re.search(r"\w", args[0]) else None
        elif macro == "It":
            flush()
            tag = mdoc(args, name) or None
        elif macro == "RS" and len(para) == 1 and tag is None and re.fullmatch(r"-\S.{0,80}", para[0]):
            tag, para = para[0], []  # how Asciidoctor writes an item
        elif macro in BREAK:
            flush()
        elif macro in FONT_PAIRS or macro in TEXT:
            text = ("" if macro in FONT_PAIRS else " ").join(args)
            if want_tag:
                tag, want_tag = text, False
            elif text:
                para.append(text)
        elif macro == "Nd":
            para.append("- " + " ".join(args))
        elif macro == "Nm":
            name = name or (args[0] if args else "")
            para.append(mdoc(args, name) or name)
        elif macro in MDOC_ONLY:
            para.append(mdoc([macro, *args], name))
    flush()
    return sections


def name_line(sections):
    """([names], what they do) from the NAME section, or None."""
    text = " ".join(sections.get("NAME", [])[:3])
    m = re.match(r"\s*(.{1,200}?)\s+(?:-{1,3}|–|—)\s+(.{4,160})", text)
    if not m:
        return None
    names = [n for n in re.split(r"[,\s]+", m[1]) if re.fullmatch(r"[A-Za-z0-9_.+:\[-]{1,40}", n)]
    return (names, m[2].strip().rstrip(".")) if names and len(names) < 12 else None
