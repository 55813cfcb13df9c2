//! Programs that are known by their options, in the words of `grammar.rs`.

use super::Uses::{self, Options, Verbs};
use super::Words;

/// Programs with the same options.
pub(super) const GROUPS: &[(Words, Uses)] = &[
    (
        Words("sort"),
        Options(
            "-bdfgiMhnRrVcCmsuz -kSt: -oT> --reverse --unique --numeric-sort --human-numeric-sort \
             --version-sort --general-numeric-sort --month-sort --random-sort --ignore-case \
             --ignore-leading-blanks --dictionary-order --stable --check? --merge \
             --zero-terminated --key: --field-separator: --buffer-size: --parallel: --output> \
             --temporary-directory> --version --help",
        ),
    ),
    (
        Words("uniq"),
        Options(
            "w1 -cdDiuz -fsw: --count --repeated --unique --ignore-case --zero-terminated \
             --all-repeated? --group? --skip-fields: --skip-chars: --check-chars: --version --help",
        ),
    ),
    (
        Words("shuf"),
        Options(
            "-erz -in: -o> --echo --repeat --zero-terminated --head-count: --input-range: \
             --output> --random-source:",
        ),
    ),
    (Words("iconv"), Options("-cls -ft: -o> --from-code: --to-code: --list --silent --output>")),
    (Words("dos2unix unix2dos"), Options("w* -kqfsv --keepdate --quiet --force")),
    (
        Words("tree"),
        Options(
            "-adfisghupDFqNQrtcUJXCnxl -LPIT: -o> --noreport --dirsfirst --gitignore --prune \
             --du --filelimit: --matchdirs --charset: --inodes --device --sort: --timefmt:",
        ),
    ),
    (
        Words("split"),
        Options(
            "w1 w. -dxeu -abClnt: --verbose --numeric-suffixes? --suffix-length: --bytes: --lines: --number: --additional-suffix:",
        ),
    ),
    (
        Words("csplit"),
        Options(
            "w. -ksz -n: -fb> --quiet --silent --keep-files --elide-empty-files --digits: --prefix> --suffix-format>",
        ),
    ),
    (
        Words("scc cloc"),
        Options(
            "-vw -f: --by-file --no-cocomo --wide --exclude-dir: --include-lang: --not-match-f: --json --csv --quiet --hide-rate",
        ),
    ),
    (
        Words("xmllint"),
        Options(
            "--noout --format --xpath: --schema: --valid --html --recover --nowarning --output> -o>",
        ),
    ),
    // `call` runs a program.
    (
        Words("csvtool"),
        Verbs(Words("col namedcol width height head drop take readable transpose sub"), "-tu:"),
    ),
    (
        Words("yq xq"),
        Options(
            "-reCMnPNcjSy -poI: --raw-output --exit-status --output-format: --input-format: \
             --prettyPrint --null-input --compact-output --slurp --arg: --yaml-output --no-doc --indent:",
        ),
    ),
    (Words("xxd"), Options("w1 -bEeiprRuVaCdv -cglnos:")),
    (Words("ldd"), Options("c* -vdru --version --help")),
    (Words("flock"), Options("-sxeunoFv -wE: --shared --exclusive --nonblock --timeout:")),
    (Words("strip"), Options("w* -sgdSxXpv --strip-all --strip-debug --strip-unneeded -o>")),
    (Words("ranlib"), Options("w* -DU")),
    (Words("dot neato fdp"), Options("-vqsnxy? -TKGNEl: -o>")),
    // Changing files.
    (Words("mkdir"), Options("w* -pvZ -m: --parents --verbose --mode: --help --version")),
    (
        Words("touch"),
        Options("w* -acmhf -drt: --no-create --date: --reference: --time: --no-dereference"),
    ),
    (
        Words("cp"),
        Options(
            "w-1 -abdfilnLPHpRrsTuvxZ -S: -t> --archive --backup? --force --interactive --link \
             --no-clobber --dereference --no-dereference --preserve? --no-preserve: --parents \
             --recursive --reflink? --sparse: --symbolic-link --suffix: --target-directory> \
             --no-target-directory --update? --verbose --one-file-system --attributes-only \
             --remove-destination",
        ),
    ),
    (
        Words("mv"),
        Options(
            "w* -bfinTuvZ -S: -t> --backup? --force --interactive --no-clobber --suffix: \
             --target-directory> --no-target-directory --update? --verbose",
        ),
    ),
    (
        Words("install"),
        Options(
            "w* -bcCdDpsTvZ -mgoS: -t> --mode: --directory --compare --preserve-timestamps \
             --target-directory> --no-target-directory --verbose --backup? --suffix:",
        ),
    ),
    (Words("rmdir"), Options("w* -pv --parents --verbose --ignore-fail-on-non-empty")),
    (Words("tee"), Options("w* -aip --append --ignore-interrupts --output-error?")),
    (Words("truncate"), Options("w* -co -sr: --no-create --io-blocks --size: --reference:")),
    (Words("mktemp"), Options("w* -dqtu --directory --quiet --dry-run --suffix: -p> --tmpdir?")),
    (
        Words("gzip gunzip"),
        Options(
            "w* -123456789cdfklnNqrtv -S: --stdout --to-stdout --decompress --uncompress --force --keep --list --recursive --test --verbose --best --fast --suffix:",
        ),
    ),
    (
        Words("bzip2 bunzip2"),
        Options(
            "w* -123456789cdfkqstvz --stdout --decompress --compress --force --keep --test --verbose",
        ),
    ),
    (
        Words("xz unxz"),
        Options(
            "w* -0123456789cdefklqtvz -T: --stdout --to-stdout --decompress --uncompress --compress --force --keep --list --test --verbose --extreme --threads:",
        ),
    ),
    (
        Words("zstd unzstd"),
        Options(
            "w* -0123456789cdfklqrtvz -T? -o> --stdout --decompress --uncompress --compress --force --keep --list --test --verbose --ultra --threads? --rm --long?",
        ),
    ),
    (
        Words("zip"),
        Options(
            "w* -0123456789cdefgjkloqruvwXyDFxi -n: -b> --recurse-paths --quiet --junk-paths --exclude: --include: --symlinks",
        ),
    ),
];
