//! What the words of languages are.

use crate::highlight::lexer::Trait::{
    Annotations, AnyCase, Calls, Commands, Dashes, Dollars, Instructions, Keys, Preprocessor,
    Rules, Rust, Settings, Types,
};
use crate::highlight::lexer::{Escapes, Extent, Quote, Syntax};

const fn quote(mark: &'static str) -> Quote {
    Quote { open: mark, close: mark, escapes: Escapes::Backslash, span: Extent::Line }
}

const fn long(open: &'static str, close: &'static str, escapes: Escapes) -> Quote {
    Quote { open, close, escapes, span: Extent::Lines }
}

const fn raw(mark: &'static str) -> Quote {
    Quote { open: mark, close: mark, escapes: Escapes::None, span: Extent::Line }
}

const DOUBLE: Quote = quote("\"");
const SINGLE: Quote = quote("'");
const DOUBLE_LINES: Quote = long("\"", "\"", Escapes::Backslash);
const SINGLE_LINES: Quote = long("'", "'", Escapes::None);
const TRIPLE_DOUBLE: Quote = long("\"\"\"", "\"\"\"", Escapes::Backslash);
const TRIPLE_SINGLE: Quote = long("'''", "'''", Escapes::Backslash);
const BACKTICKS: Quote = long("`", "`", Escapes::Backslash);
const C_BLOCKS: &[(&str, &str)] = &[("/*", "*/")];

pub(super) static RUST: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &[
        long("br#\"", "\"#", Escapes::None),
        long("r##\"", "\"##", Escapes::None),
        long("r#\"", "\"#", Escapes::None),
        long("r\"", "\"", Escapes::None),
        long("b\"", "\"", Escapes::Backslash),
        DOUBLE_LINES,
        SINGLE,
    ],
    keywords: "\
        as async await break const continue crate dyn else enum extern fn for if impl in let \
        loop match mod move mut pub ref return self Self static struct super trait type \
        unsafe use where while union u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 \
        f64 bool char str",
    traits: &[Rust, Calls, Types],
};

pub(super) static PYTHON: Syntax = Syntax {
    comments: &["#"],
    blocks: &[],
    strings: &[TRIPLE_DOUBLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
    keywords: "\
        and as assert async await break case class continue def del elif else except finally \
        for from global if import in is lambda match nonlocal not or pass raise return self \
        cls try while with yield",
    traits: &[Calls, Types, Annotations],
};

pub(super) static JAVASCRIPT: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &[BACKTICKS, DOUBLE, SINGLE],
    keywords: "\
        abstract any as async await boolean break case catch class const continue debugger \
        declare default delete do else enum export extends finally for from function if \
        implements import in instanceof interface is keyof let namespace never new number of \
        private protected public readonly return satisfies static string super switch this \
        throw try type typeof unknown var void while with yield",
    traits: &[Calls, Types, Annotations],
};

pub(super) static SHELL: Syntax = Syntax {
    comments: &["#"],
    blocks: &[],
    strings: &[DOUBLE_LINES, SINGLE_LINES],
    keywords: "\
        case do done elif else esac export fi for function if in local readonly return \
        select then until while",
    traits: &[Commands, Dollars, Dashes],
};

pub(super) static C: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &[DOUBLE, SINGLE],
    keywords: "\
        alignas auto bool break case catch char class const constexpr consteval continue \
        co_await co_return co_yield decltype default delete do double else enum explicit \
        extern final float for friend goto if inline int long mutable namespace new noexcept \
        operator override private protected public register restrict return short signed \
        sizeof static static_assert struct switch template this throw try typedef typename \
        union unsigned using virtual void volatile while size_t self id",
    traits: &[Calls, Types, Preprocessor],
};

pub(super) static GO: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &[long("`", "`", Escapes::None), DOUBLE, SINGLE],
    keywords: "\
        any bool break byte case chan const continue default defer else error fallthrough \
        float64 for func go goto if import int int64 interface map package range return rune \
        select string struct switch type uint uint64 var",
    traits: &[Calls, Types],
};

/// Java and what looks like it.
pub(super) static JAVA: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &[TRIPLE_DOUBLE, DOUBLE, SINGLE],
    keywords: "\
        abstract actor as assert async await bool boolean break byte case catch char class \
        companion const continue data decimal def default defer delegate do double else enum \
        event export extends extension external factory final finally float for foreach fn \
        fun func get given goto guard if implements implicit import in init inline \
        instanceof int interface internal is late lazy let library long match mixin \
        namespace native new object open operator out override package partial private \
        protected protocol pub public readonly record ref required return sealed self set \
        short static string struct super suspend switch synchronized this throw throws trait \
        transient try type typealias typedef typeof using val var virtual void volatile when \
        where while with yield",
    traits: &[Calls, Types, Annotations],
};

pub(super) static PHP: Syntax = Syntax {
    comments: &["//", "#"],
    blocks: C_BLOCKS,
    strings: &[DOUBLE_LINES, SINGLE],
    keywords: "\
        abstract array as break case catch class const continue default do echo else elseif \
        extends final finally fn for foreach function global if implements instanceof int \
        interface match namespace new print private protected public readonly return static \
        string switch throw trait try use void while yield my our sub package require unless \
        foreach last next qw",
    traits: &[Calls, Types, Dollars],
};

/// Ruby, and others with `end`.
pub(super) static RUBY: Syntax = Syntax {
    comments: &["#"],
    blocks: &[],
    strings: &[TRIPLE_DOUBLE, DOUBLE, SINGLE],
    keywords: "\
        after alias and baremodule begin break case catch class cond const def defmodule \
        defp do else elsif elseif end ensure export extend fn for function global if import \
        in include let local macro module mutable next not or private protected public quote \
        raise receive redo require rescue retry return self struct super then try unless \
        until use using when where while with yield proc method object var type",
    traits: &[Calls, Types, Annotations],
};

pub(super) static LUA: Syntax = Syntax {
    comments: &["--"],
    blocks: &[("--[[", "]]"), ("{-", "-}")],
    strings: &[long("[[", "]]", Escapes::None), DOUBLE, SINGLE],
    keywords: "\
        and break do else elseif end for function goto if in local not or repeat return then \
        until while",
    traits: &[Calls],
};

pub(super) static HASKELL: Syntax = Syntax {
    comments: &["-- ", "--|"],
    blocks: &[("{-", "-}"), ("(*", "*)")],
    strings: &[DOUBLE],
    keywords: "\
        and begin case class data deriving do done else end exception family for forall \
        foreign fun function functor if import in include infix infixl infixr instance let \
        match method module mutable newtype of open qualified rec sig struct then to try \
        type val when where while with",
    traits: &[Types],
};

pub(super) static SQL: Syntax = Syntax {
    comments: &["--"],
    blocks: C_BLOCKS,
    strings: &[long("'", "'", Escapes::None), raw("\"")],
    keywords: "\
        add all alter analyze and as asc begin between bigint bool boolean by cascade case \
        check column commit constraint create cross database default delete desc distinct \
        drop else end except exists explain foreign from full grant group having if in index \
        inner insert int integer intersect into is join key left like limit not offset on or \
        order outer over partition pragma primary references returning right rollback select \
        set table text then timestamp transaction trigger truncate union unique update using \
        values varchar view when where with",
    traits: &[AnyCase, Calls],
};

pub(super) static CSS: Syntax = Syntax {
    comments: &[],
    blocks: C_BLOCKS,
    strings: &[DOUBLE, SINGLE],
    keywords: "\
        important inherit initial unset none auto",
    traits: &[Keys, Dashes, Calls, Annotations, Dollars],
};

pub(super) static JSON: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &[DOUBLE],
    keywords: "",
    traits: &[Keys],
};

pub(super) static YAML: Syntax = Syntax {
    comments: &["#"],
    blocks: &[],
    strings: &[DOUBLE, raw("'")],
    keywords: "",
    traits: &[Keys, Dashes],
};

pub(super) static SETTINGS: Syntax = Syntax {
    comments: &["#", ";"],
    blocks: &[],
    strings: &[TRIPLE_DOUBLE, TRIPLE_SINGLE, DOUBLE, raw("'")],
    keywords: "",
    traits: &[Settings, Dashes],
};

pub(super) static MAKEFILE: Syntax = Syntax {
    comments: &["#"],
    blocks: &[],
    strings: &[DOUBLE, SINGLE],
    keywords: "\
        define else endef endif export ifdef ifeq ifndef include",
    traits: &[Rules, Dollars, Dashes],
};

pub(super) static DOCKERFILE: Syntax = Syntax {
    comments: &["#"],
    blocks: &[],
    strings: &[DOUBLE, SINGLE],
    keywords: "\
        AS",
    traits: &[Instructions, Dollars, Dashes],
};

pub(super) static LISP: Syntax = Syntax {
    comments: &[";"],
    blocks: &[],
    strings: &[DOUBLE_LINES],
    keywords: "\
        and cond def define defmacro defn defun defvar do fn if lambda let ns or progn quote \
        require set! setq unless when",
    traits: &[Dashes],
};

/// Languages of which only the most common is known.
pub(super) static HASHES: Syntax = Syntax {
    comments: &["#", "//"],
    blocks: &[],
    strings: &[DOUBLE, SINGLE],
    keywords: "\
        data else elseif enum extend foreach for function if in inherit input let module \
        mutation output param provider query rec resource return server location then type \
        upstream variable while with",
    traits: &[Dollars, Dashes, Calls],
};

/// The sources of TeX, R and Erlang have little in common but their comments.
pub(super) static PERCENTS: Syntax = Syntax {
    comments: &["%"],
    blocks: &[],
    strings: &[DOUBLE],
    keywords: "\
        case end for fun function if of receive when while",
    traits: &[Calls],
};
