//! Why a gateway does not start, and whether that can pass.

use std::io;
use std::path::PathBuf;

use crate::address::{AddressHolder, ApiSocketError};
use crate::settings::ApiServerError;
use crate::state::GatewayStateError;

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Another one serves the profile.
    #[error("a gateway of profile {profile} runs already{}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    AlreadyRunning {
        /// The profile.
        profile: String,
        /// Its process, if known.
        pid: Option<u32>,
    },
    /// The API server cannot be started with these settings.
    #[error(transparent)]
    ApiServer(#[from] ApiServerError),
    /// The address of the API server cannot be listened on.
    #[error("the API server cannot listen on {address}: {source}{}", holder.as_ref().map(ToString::to_string).unwrap_or_default())]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
        /// Who has the port, if that can be seen.
        holder: Option<AddressHolder>,
    },
    /// The socket of the API server cannot be listened on.
    #[error(transparent)]
    Socket(#[from] ApiSocketError),
    /// What the API server keeps cannot be used.
    #[error(transparent)]
    Store(vestal_database::Error),
    /// A setting of the API server cannot be used.
    #[error(transparent)]
    Settings(vestal_config::ConfigError),
    /// A newer program has served the profile, and says in its own way what it did.
    #[error(transparent)]
    NewerState(GatewayStateError),
    /// Files of the home cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    Home {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl GatewayError {
    /// Reports whether trying again cannot help before somebody changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::ApiServer(_) | Self::Socket(_) | Self::Settings(_) | Self::NewerState(_) => true,
            // An address that is taken has been tried for as long as the settings say. One that is
            // not there yet, or no descriptors, may pass.
            Self::Listen { source, .. } => {
                matches!(source.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
            }
            // Nobody but a person moves a file of another version or program away.
            Self::Store(error) => matches!(
                error,
                vestal_database::Error::Newer { .. }
                    | vestal_database::Error::Foreign { .. }
                    | vestal_database::Error::Damaged { .. }
            ),
            Self::AlreadyRunning { .. } | Self::Home { .. } => false,
        }
    }

    /// Reports whether another process has the address.
    pub(crate) fn is_taken_address(&self) -> bool {
        matches!(self, Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
    }

    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::AlreadyRunning { .. } => "already_running",
            Self::ApiServer(error) => error.code(),
            Self::Listen { .. } | Self::Socket(_) => "address_unavailable",
            Self::Store(_) => "store_unusable",
            Self::Settings(_) => "settings_invalid",
            Self::NewerState(_) => "state_newer",
            Self::Home { .. } => "home_unusable",
        }
    }
}
