-- Schemas, and privileges that every later object inherits. The roles and the vector extension exist already: creating
-- them takes an administrator, and migrations run as zeroth_owner.

create schema zeroth;
create schema zeroth_acl;
create schema zeroth_staging;

comment on schema zeroth is 'Chunks, tenants and index builds. Row-level security is the boundary.';
comment on schema zeroth_acl is 'Who may read which tenant. No querying role has USAGE here.';
comment on schema zeroth_staging is 'A first load''s table, inside the loading transaction and nowhere else.';

grant usage on schema zeroth to zeroth_app, zeroth_loader;
grant usage on schema zeroth_staging to zeroth_loader;

-- A function that somebody adds later is nobody's until it is granted.
alter default privileges for role zeroth_owner revoke execute on functions from public;

-- The loader compares a reload in a temporary table; a querying role has no use for one.
do $$
begin
  execute format('revoke temporary, create on database %I from public', current_database());
  execute format('grant temporary on database %I to zeroth_loader', current_database());
end
$$;
