"""Creates, lists and reads statistics through the generated client."""

import sys

from terse_client import AuthenticatedClient
from terse_client.api.clicks import all_stats, link_stats
from terse_client.api.links import create_link, get_link, list_links
from terse_client.models import BotsParameter, CreateLink, Link, LinkList, LinkStats, Problem

url, key = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True) as client:
    body = CreateLink(
        long_url="https://example.com/python", custom_alias="from-python", tags=["client"]
    )
    made = create_link.sync_detailed(client=client, body=body)
    assert made.status_code == 201, made
    assert isinstance(made.parsed, Link), made
    assert made.parsed.short_code == "from-python"
    assert made.parsed.tags == ["client"]
    again = create_link.sync_detailed(client=client, body=body)
    assert again.status_code == 200, again

    read = get_link.sync(client=client, code="from-python")
    assert isinstance(read, Link) and read.long_url == "https://example.com/python"

    # A domain is a text: which domains there are is no part of the generated types.
    body = CreateLink(
        long_url="https://example.com/named", tags=["named"], domain=made.parsed.domain
    )
    named = create_link.sync(client=client, body=body)
    assert isinstance(named, Link) and named.domain == made.parsed.domain, named

    listed = list_links.sync(client=client, tag="client", limit=10, domain=read.domain)
    assert isinstance(listed, LinkList), listed
    assert [link.short_code for link in listed.links] == ["from-python"]

    stats = link_stats.sync(client=client, code="from-python", bots=BotsParameter.EXCLUDE)
    assert isinstance(stats, LinkStats), stats
    assert stats.total_clicks == 0
    assert all_stats.sync(client=client) is not None

    refused = create_link.sync(client=client, body=CreateLink(long_url="ftp://example.com/"))
    assert isinstance(refused, Problem) and refused.code == "scheme_not_allowed", refused
