from .app import create_app as create_app
from .client import Client as Client
from .settings import Settings as Settings

__all__: list[str]
