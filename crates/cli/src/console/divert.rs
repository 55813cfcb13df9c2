//! What is said while somebody else draws on the terminal.

use std::sync::{Mutex, PoisonError};

/// Something that would have gone to the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A line, for good.
    Line(String),
    /// What is under way, in place of what was; none: nothing any more.
    Status(Option<String>),
}

type Taker = Box<dyn Fn(Said) + Send>;

/// Who takes it. Global, because there is one terminal, and whoever draws on it
/// has to know of everything that is said: also of the libraries' reports.
static TAKER: Mutex<Option<Taker>> = Mutex::new(None);

/// Has everything that is said on standard error go to somebody, until
/// [`undivert`].
pub(crate) fn divert(take: impl Fn(Said) + Send + 'static) {
    *TAKER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(take));
}

/// Has it go to the terminal again.
pub(crate) fn undivert() {
    *TAKER.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Hands something to whoever takes it; gives it back where nobody does.
pub(super) fn offer(said: Said) -> Result<(), Said> {
    match &*TAKER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(take) => {
            take(said);
            Ok(())
        }
        None => Err(said),
    }
}
