//! Programs that are known by their options, in the words of `grammar.rs`.

use super::Uses::{self, Options, Verbs};
use super::WordList;

/// Programs with the same options.
pub(super) const GROUPS: &[(WordList, Uses)] = &[
    (
        WordList("sort"),
        Options(
            "-bdfgiMhnRrVcCmsuz -kSt: -oT> --reverse --unique --numeric-sort --human-numeric-sort \
             --version-sort --general-numeric-sort --month-sort --random-sort --ignore-case \
             --ignore-leading-blanks --dictionary-order --stable --check? --merge \
             --zero-terminated --key: --field-separator: --buffer-size: --parallel: --output> \
             --temporary-directory> --version --help",
        ),
    ),
    (
        WordList("uniq"),
        Options(
            "w1 -cdDiuz -fsw: --count --repeated --unique --ignore-case --zero-terminated \
             --all-repeated? --group? --skip-fields: --skip-chars: --check-chars: --version --help",
        ),
    ),
    (
        WordList("shuf"),
        Options(
            "-erz -in: -o> --echo --repeat --zero-terminated --head-count: --input-range: \
             --output> --random-source:",
        ),
    ),
    (WordList("iconv"), Options("-cls -ft: -o> --from-code: --to-code: --list --silent --output>")),
    (WordList("dos2unix unix2dos"), Options("w* -kqfsv --keepdate --quiet --force")),
    (
        WordList("tree"),
        Options(
            "-adfisghupDFqNQrtcUJXCnxl -LPIT: -o> --noreport --dirsfirst --gitignore --prune \
             --du --filelimit: --matchdirs --charset: --inodes --device --sort: --timefmt:",
        ),
    ),
    (
        WordList("split"),
        Options(
            "w1 w. -dxeu -abClnt: --verbose --numeric-suffixes? --suffix-length: --bytes: --lines: --number: --additional-suffix:",
        ),
    ),
    (
        WordList("csplit"),
        Options(
            "w. -ksz -n: -fb> --quiet --silent --keep-files --elide-empty-files --digits: --prefix> --suffix-format>",
        ),
    ),
    (
        WordList("scc cloc"),
        Options(
            "-vw -f: --by-file --no-cocomo --wide --exclude-dir: --include-lang: --not-match-f: --json --csv --quiet --hide-rate",
        ),
    ),
    (
        WordList("xmllint"),
        Options(
            "--noout --format --xpath: --schema: --valid --html --recover --nowarning --output> -o>",
        ),
    ),
    // `call` runs a program.
    (
        WordList("csvtool"),
        Verbs(WordList("col namedcol width height head drop take readable transpose sub"), "-tu:"),
    ),
    (
        WordList("yq xq"),
        Options(
            "-reCMnPNcjSy -poI: --raw-output --exit-status --output-format: --input-format: \
             --prettyPrint --null-input --compact-output --slurp --arg: --yaml-output --no-doc --indent:",
        ),
    ),
    (WordList("xxd"), Options("w1 -bEeiprRuVaCdv -cglnos:")),
    (WordList("ldd"), Options("c* -vdru --version --help")),
    (WordList("flock"), Options("-sxeunoFv -wE: --shared --exclusive --nonblock --timeout:")),
    (WordList("strip"), Options("w* -sgdSxXpv --strip-all --strip-debug --strip-unneeded -o>")),
    (WordList("ranlib"), Options("w* -DU")),
    (WordList("dot neato fdp"), Options("-vqsnxy? -TKGNEl: -o>")),
    // Changing files.
    (WordList("mkdir"), Options("w* -pvZ -m: --parents --verbose --mode: --help --version")),
    (
        WordList("touch"),
        Options("w* -acmhf -drt: --no-create --date: --reference: --time: --no-dereference"),
    ),
    (
        WordList("cp"),
        Options(
            "w-1 -abdfilnLPHpRrsTuvxZ -S: -t> --archive --backup? --force --interactive --link \
             --no-clobber --dereference --no-dereference --preserve? --no-preserve: --parents \
             --recursive --reflink? --sparse: --symbolic-link --suffix: --target-directory> \
             --no-target-directory --update? --verbose --one-file-system --attributes-only \
             --remove-destination",
        ),
    ),
    (
        WordList("mv"),
        Options(
            "w* -bfinTuvZ -S: -t> --backup? --force --interactive --no-clobber --suffix: \
             --target-directory> --no-target-directory --update? --verbose",
        ),
    ),
    (
        WordList("install"),
        Options(
            "w* -bcCdDpsTvZ -mgoS: -t> --mode: --directory --compare --preserve-timestamps \
             --target-directory> --no-target-directory --verbose --backup? --suffix:",
        ),
    ),
    (WordList("rmdir"), Options("w* -pv --parents --verbose --ignore-fail-on-non-empty")),
    (WordList("tee"), Options("w* -aip --append --ignore-interrupts --output-error?")),
    (WordList("truncate"), Options("w* -co -sr: --no-create --io-blocks --size: --reference:")),
    (WordList("mktemp"), Options("w* -dqtu --directory --quiet --dry-run --suffix: -p> --tmpdir?")),
    (
        WordList("gzip gunzip"),
        Options(
            "w* -123456789cdfklnNqrtv -S: --stdout --to-stdout --decompress --uncompress --force --keep --list --recursive --test --verbose --best --fast --suffix:",
        ),
    ),
    (
        WordList("bzip2 bunzip2"),
        Options(
            "w* -123456789cdfkqstvz --stdout --decompress --compress --force --keep --test --verbose",
        ),
    ),
    (
        WordList("xz unxz"),
        Options(
            "w* -0123456789cdefklqtvz -T: --stdout --to-stdout --decompress --uncompress --compress --force --keep --list --test --verbose --extreme --threads:",
        ),
    ),
    (
        WordList("zstd unzstd"),
        Options(
            "w* -0123456789cdfklqrtvz -T? -o> --stdout --decompress --uncompress --compress --force --keep --list --test --verbose --ultra --threads? --rm --long?",
        ),
    ),
    (
        WordList("zip"),
        Options(
            "w* -0123456789cdefgjkloqruvwXyDFxi -n: -b> --recurse-paths --quiet --junk-paths --exclude: --include: --symlinks",
        ),
    ),
];
