"""An index of the vectors of a SQL store on a Qdrant server."""

from retentive.stores.qdrant.address import parse_address
from retentive.stores.qdrant.index import QdrantIndex

__all__ = ["QdrantIndex", "parse_address"]
