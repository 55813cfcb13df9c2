//! What a server may tell and ask us.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::{Mutex, Notify, mpsc};

/// News of one call that may wait to be told; more are as good as none.
pub(crate) const NEWS: usize = 64;

/// Who waits for news of which call. Held while a call is sent, so that no news
/// of it can come before somebody waits for them.
pub(crate) type Watchers =
    Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<ProgressNotificationParam>>>>;

/// Our side of a connection. It offers the server nothing: no model to ask, no
/// directories to look into, nobody to answer questions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listener {
    pub(crate) watchers: Watchers,
    /// Rings when the server's tools have changed.
    pub(crate) changed: Arc<Notify>,
}

impl ClientHandler for Listener {
    async fn on_progress(
        &self,
        news: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(watcher) = self.watchers.lock().await.get(&news.progress_token) {
            // One who is told of the latest later misses nothing.
            drop(watcher.try_send(news));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("vestal", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
