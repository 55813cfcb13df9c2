//! Panics that end one turn or one request, and not the process.
//!
//! A program whose hook for panics ends the process asks [`is_contained`] first: where it is true,
//! somebody waits for the panic, and everybody else's work continues.

use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Reports whether a panic on this thread, now, is caught and reported where it belongs.
pub fn is_contained() -> bool {
    DEPTH.get() > 0
}

/// Runs what may panic; the panic must be caught around it.
pub fn contained<T>(work: impl FnOnce() -> T) -> T {
    let _inside = Inside::enter();
    work()
}

/// A future whose panics are caught by the code that polls it.
#[derive(Debug)]
pub struct Contained<F>(Pin<Box<F>>);

impl<F: Future> Contained<F> {
    /// Wraps a future.
    pub fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        contained(|| self.0.as_mut().poll(context))
    }
}

/// Runs a future to its end; nothing, and an error in the log, if it panics. `what` says what was
/// not done.
pub async fn caught<F: Future>(what: &str, future: F) -> Option<F::Output> {
    let mut future = Contained::new(future);
    let ended = poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    match ended.await {
        Ok(output) => Some(output),
        Err(panic) => {
            tracing::error!("{what}: {}", reason(&*panic));
            None
        }
    }
}

/// Returns the message of a panic.
pub fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

struct Inside;

impl Inside {
    fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}
