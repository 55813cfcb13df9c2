//! The last line of the terminal, which says what is under way.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use super::divert::Said;
use super::{divert, table, terminal};

/// Begins the line anew and clears it.
const CLEAR: &str = "\r\x1b[2K";

/// Whether the line says something. Global, because there is one terminal:
/// whatever else is said has to begin on a clean line, and every way out of the
/// program has to leave one.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Reports whether there is a terminal to show it on.
pub(crate) fn is_possible() -> bool {
    io::stderr().is_terminal()
}

/// Shows a text in place of the one before. What does not fit is cut: a line
/// that wraps could not be cleared.
pub(crate) fn show(text: &str) {
    if divert::offer(Said::Status(Some(text.to_owned()))).is_ok() {
        return;
    }
    let width = terminal::error_width().map_or(usize::MAX, |width| width.saturating_sub(1));
    SHOWN.store(true, Ordering::Relaxed);
    write(&format!("{CLEAR}{}", table::cut(text, width)));
}

/// Clears the line if it says something.
pub(crate) fn clear() {
    if divert::offer(Said::Status(None)).is_ok() {
        return;
    }
    if SHOWN.swap(false, Ordering::Relaxed) {
        write(CLEAR);
    }
}

/// Clears the line when it is dropped, and so also when whoever showed
/// something is interrupted.
#[derive(Debug)]
pub(super) struct Clearing;

impl Drop for Clearing {
    fn drop(&mut self) {
        clear();
    }
}

/// Writes to standard error; a terminal that is gone misses nothing.
fn write(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}
