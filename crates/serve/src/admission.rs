//! Whether a turn may begin, and who knows of it while it runs.

use tokio_util::sync::CancellationToken;

/// Decides whether a turn may begin. The program around a server knows how many it can bear, and
/// has to end them when it ends itself.
pub trait Admission: Send + Sync {
    /// Lets a turn begin, or says why not.
    fn admit(&self) -> Result<TurnPermit, String>;
}

/// A turn that may run.
pub struct TurnPermit {
    /// Interrupts it when it is cancelled.
    pub interrupt: CancellationToken,
    /// Dropped when it has ended.
    pub running: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for TurnPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnPermit").finish_non_exhaustive()
    }
}

/// Lets every turn begin.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Admission for Unlimited {
    fn admit(&self) -> Result<TurnPermit, String> {
        Ok(TurnPermit { interrupt: CancellationToken::new(), running: Box::new(()) })
    }
}
